package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"oversell/internal/catalog"
	"oversell/internal/holds"
	"oversell/internal/holds/payfault"
	"oversell/internal/payment"
	"oversell/internal/web"
)

// ownSite returns a shop with an embedded payment provider.
func ownSite(t *testing.T) *holdSite {
	t.Helper()
	return newHoldSite(t, holds.Config{}, true)
}

// list reads the holds of a sale.
func (s *holdSite) list(t *testing.T, sku string) (list web.HoldList) {
	t.Helper()
	read(t, s.admin("GET", "/api/audit/"+sku+"/holds", ""), &list)
	return list
}

// The list shows who has the units and where the money is, for a paid hold, a refunded one, and an
// unpaid one.
func TestListSaysWhoseTheUnitsAre(t *testing.T) {
	s := ownSite(t)
	sku := s.sell(t, 3)
	list := s.list(t, sku)
	if list.Stage != "" || list.Holds == nil || len(list.Holds) != 0 || !list.Faults ||
		fmt.Sprint(list.Books) != fmt.Sprint(&payment.Books{}) {
		t.Errorf("before the first hold the list is %+v", list)
	}
	paid, open := s.hold(t, sku, "ann", 1), s.hold(t, sku, "bob", 2)
	var order holds.Order
	read(t, s.pay(paid, "key"), &order)
	wantProblem(t, s.pay(paid, "another-key"), http.StatusConflict, "hold_ended")
	list = s.list(t, sku)
	if list.SKU != sku || list.Stage != catalog.DefaultHoldStage || len(list.Holds) != 2 ||
		!list.Now.Before(open.ExpiresAt) {
		t.Fatalf("the list is %+v", list)
	}
	h := list.Holds[0]
	if h.ID != open.ID || h.Buyer != "bob" || h.Quantity != 2 || h.Status != holds.Held ||
		!h.ExpiresAt.Equal(open.ExpiresAt) || h.Order != nil || len(h.Payments) != 0 {
		t.Errorf("Bob's hold is %+v, want %+v", h, open)
	}
	h = list.Holds[1]
	if h.ID != paid.ID || h.Buyer != "ann" || h.Status != holds.Paid || h.Order == nil || *h.Order != order {
		t.Errorf("Ann's hold is %+v, and the order %+v", h, order)
	}
	if len(h.Payments) != 2 {
		t.Fatalf("Ann's payments are %+v", h.Payments)
	}
	p := h.Payments[0]
	if p.ID != order.PaymentID || p.Status != payment.Captured || p.Amount != holds.DefaultPrice ||
		p.Currency != "EUR" || h.Payments[1].Status != payment.Cancelled {
		t.Errorf("Ann's payments are %+v", h.Payments)
	}
	want := &payment.Books{Authorised: 2, Captured: 1, Cancelled: 1}
	if fmt.Sprint(list.Books) != fmt.Sprint(want) {
		t.Errorf("the books are %+v, want %+v", list.Books, want)
	}
	if body := s.admin("GET", "/api/audit/"+sku+"/holds", "").Body.String(); strings.Contains(body, `"token"`) {
		t.Errorf("the list has the fencing tokens: %s", body)
	}
	other := s.sell(t, 1)
	if list := s.list(t, other); len(list.Holds) != 0 || list.Books.Captured != 0 {
		t.Errorf("another sale has the list %+v", list)
	}
}

// The list includes a payment whose hold the stage has already deleted.
func TestListHasThePaymentsOfForgottenHolds(t *testing.T) {
	s := ownSite(t)
	sku := s.sell(t, 1)
	h := s.holdBy(t, "h1_counter", sku, 1)
	wantNothing(t, s.ask("DELETE", "/api/holds/"+h.ID+"?token=0", ""))
	r := payment.Request{Reference: h.Reference(), Amount: holds.DefaultPrice, Group: s.list(t, sku).SaleID}
	p := s.charge(t, r)
	read(t, s.webhook(event(p, payment.EventCaptured)), new(any))
	list := s.list(t, sku)
	if len(list.Holds) != 1 {
		t.Fatalf("the list is %+v", list.Holds)
	}
	got := list.Holds[0]
	if got.ID != h.ID || got.Status != "forgotten" || got.Buyer != "" ||
		len(got.Payments) != 1 || got.Payments[0].Status != payment.Refunded {
		t.Errorf("the hold is %+v", got)
	}
	if list.Books.ChargedWithoutOrder != 0 || list.Books.Refunded != 1 {
		t.Errorf("the books are %+v", list.Books)
	}
}

// A fault affects only one hold. The reply to its capture is lost, and another buyer's payment
// succeeds. The webhook settles the first payment.
func TestFaultOfOnePayment(t *testing.T) {
	s := ownSite(t)
	sku := s.sell(t, 2)
	ann, bob := s.hold(t, sku, "ann", 1), s.hold(t, sku, "bob", 1)
	var fault payfault.Fault
	body := fmt.Sprintf(`{"token":%d,"fault":"lost_reply","seconds":60}`, ann.Token)
	read(t, s.admin("PUT", "/api/holds/"+ann.ID+"/fault", body), &fault)
	if fault != (payfault.Fault{Kind: payfault.LostReply, Seconds: 60}) {
		t.Errorf("the fault is %+v", fault)
	}
	wantProblem(t, s.pay(ann, "key"), http.StatusServiceUnavailable, "payment_pending")
	read(t, s.pay(bob, "key"), new(holds.Order))
	list := s.list(t, sku)
	if list.Books.ChargedWithoutOrder != 1 || list.Books.Captured != 2 {
		t.Errorf("the books are %+v", list.Books)
	}
	captured := list.Holds[1].Payments[0]
	body = event(payment.Payment{
		ID: captured.ID, Reference: ann.Reference(),
		Amount: captured.Amount, Currency: captured.Currency, Status: payment.Captured,
	}, payment.EventCaptured)
	read(t, s.webhook(body), new(any))
	s.wantBooks(t, sku, 2, 0, payment.Books{Authorised: 2, Captured: 2})
}

func TestFaultsThatAreRefused(t *testing.T) {
	s := ownSite(t)
	sku := s.sell(t, 2)
	h, released := s.hold(t, sku, "ann", 1), s.hold(t, sku, "bob", 1)
	wantNothing(t, s.release(released, released.Token))
	slow := func(token int64) string {
		return fmt.Sprintf(`{"token":%d,"fault":"slow_bank","seconds":1}`, token)
	}
	at, good := "/api/holds/"+h.ID+"/fault", slow(h.Token)
	for _, body := range []string{
		`{}`, `{"fault":"none"}`, fmt.Sprintf(`{"token":%d}`, h.Token), strings.Replace(good, "slow_bank", "moon", 1),
	} {
		wantProblem(t, s.admin("PUT", at, body), http.StatusBadRequest, "invalid")
	}
	wantProblem(t, s.admin("PUT", at+"?moon=1", good), http.StatusBadRequest, "invalid")
	wantProblem(t, s.admin("PUT", at, slow(h.Token+1)), http.StatusConflict, "wrong_token")
	wantProblem(t, s.admin("PUT", "/api/holds/h3-none/fault", good), http.StatusNotFound, "unknown_hold")
	late := s.admin("PUT", "/api/holds/"+released.ID+"/fault",
		fmt.Sprintf(`{"token":%d,"fault":"none"}`, released.Token))
	wantProblem(t, late, http.StatusConflict, "hold_ended")
	wantProblem(t, s.admin("GET", "/api/audit/none/holds", ""), http.StatusNotFound, "unknown_item")
	wantProblem(t, s.admin("GET", "/api/audit/"+s.put(t, 1)+"/holds", ""), http.StatusBadRequest, "wrong_keeper")
	read(t, s.pay(h, "key"), new(holds.Order))
}

// A shop with an external provider cannot set faults, and its list has orders but no payments.
func TestNoFaultsAtAnotherProvider(t *testing.T) {
	s := embeddedHoldSite(t, holds.Config{})
	sku := s.sell(t, 1)
	h := s.hold(t, sku, "ann", 1)
	w := s.admin("PUT", "/api/holds/"+h.ID+"/fault",
		fmt.Sprintf(`{"token":%d,"fault":"slow_bank","seconds":1}`, h.Token))
	wantProblem(t, w, http.StatusNotFound, "no_faults")
	read(t, s.pay(h, "key"), new(holds.Order))
	list := s.list(t, sku)
	if list.Faults || list.Books != nil || len(list.Holds) != 1 ||
		list.Holds[0].Order == nil || list.Holds[0].Payments != nil {
		t.Errorf("the list is %+v", list)
	}
}
