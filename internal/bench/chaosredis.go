package bench

import (
	"context"
	"fmt"
	"strings"
)

// redisDo returns a function that sends a command.
func (s *ChaosServers) redisDo(command ...any) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, faultTimeout)
		defer cancel()
		if err := s.admin.Do(ctx, command...).Err(); err != nil {
			return fmt.Errorf("%v: %w", command[0], err)
		}
		return nil
	}
}

// loseKeys deletes the item's keys in whose names the given text follows the item's name. If the
// text is "", it deletes all keys of the item.
func (s *ChaosServers) loseKeys(ctx context.Context, sku, what string) error {
	ctx, cancel := context.WithTimeout(ctx, faultTimeout)
	defer cancel()
	prefix := "oversell:{" + sku + "}" + what
	var keys []string
	found := s.admin.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for found.Next(ctx) {
		if strings.HasPrefix(found.Val(), prefix) {
			keys = append(keys, found.Val())
		}
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("looking for the keys of %s: %w", sku, err)
	}
	if len(keys) == 0 {
		return nil // they were already gone, or the stock is in the database
	}
	if err := s.admin.Del(ctx, keys...).Err(); err != nil {
		return fmt.Errorf("deleting the keys of %s: %w", sku, err)
	}
	return nil
}
