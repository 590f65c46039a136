package holds

import (
	"context"

	"gorm.io/gorm"

	"oversell/internal/stock"
)

// The tables. The stages read and write them in SQL.

// row is a hold in the table oversell_holds. Times are milliseconds since 1970, so that the
// database can compare them with its clock in any time zone.
type row struct {
	ID     string `gorm:"primaryKey;size:36"`
	SKU    string `gorm:"size:64;not null;index:idx_holds_sweep,priority:1"`
	SaleID string `gorm:"size:36;not null;uniqueIndex:idx_holds_sale_key;index:idx_holds_sale_buyer"`
	Buyer  string `gorm:"size:64;not null;index:idx_holds_sale_buyer,priority:11"` // after the default, 10
	// IdempotencyKey is NULL for a hold without a key: NULLs are not equal.
	IdempotencyKey *string `gorm:"size:128;uniqueIndex:idx_holds_sale_key,priority:11"`
	Quantity       int64   `gorm:"not null"`
	Token          int64   `gorm:"not null"`
	Status         Status  `gorm:"size:16;not null;index:idx_holds_sweep,priority:2"`
	PaymentID      string  `gorm:"size:128;not null;default:''"`
	ExpiresAt      int64   `gorm:"not null;autoUpdateTime:false;index:idx_holds_sweep,priority:3"`
	CreatedAt      int64   `gorm:"not null;autoCreateTime:false"`
}

func (row) TableName() string { return "oversell_holds" }

// buyerRow counts the units that a buyer has in a sale, held or paid.
type buyerRow struct {
	SaleID string `gorm:"primaryKey;size:36"`
	Buyer  string `gorm:"primaryKey;size:64"`
	Units  int64  `gorm:"not null"`
}

func (buyerRow) TableName() string { return "oversell_hold_buyers" }

// saleRow names the stage that a sale began with. Stages do not know each other's holds, so a sale
// has only one stage.
type saleRow struct {
	SaleID string `gorm:"primaryKey;size:36"`
	Stage  string `gorm:"size:32;not null"`
}

func (saleRow) TableName() string { return "oversell_hold_sales" }

// Migrate creates the tables of holds, or adds what is missing in them. Several processes may call
// it at the same time. The tables of stock.Migrate must exist, too.
func Migrate(ctx context.Context, db *gorm.DB) error {
	return stock.MigrateTables(ctx, db, "holds", &row{}, &buyerRow{}, &saleRow{}, &begunRow{})
}
