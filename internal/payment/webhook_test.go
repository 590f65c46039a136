package payment

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	secret = []byte("whsec_of_the_tests")
	noon   = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
)

// someEvent returns the body of an event as the provider sends it.
func someEvent(t testing.TB) []byte {
	t.Helper()
	body, err := json.Marshal(Event{
		ID: "evt_1", Type: EventCaptured, Time: noon,
		Payment: Payment{ID: "pay_1", Reference: "hold-1", Amount: 1250, Currency: "EUR", Status: Captured,
			CreatedAt: noon},
	})
	must(t, err)
	return body
}

// Verify accepts a body only if it was signed with the secret and has not changed since.
func TestVerifyAcceptsOnlyWhatWasSigned(t *testing.T) {
	body := someEvent(t)
	signed := Sign(secret, body, noon)
	at, signature, _ := strings.Cut(signed, ",")
	for name, c := range map[string]struct {
		secret []byte
		header string
		body   string
		now    time.Time
		want   error
	}{
		"as it was signed":            {secret, signed, string(body), noon, nil},
		"at the end of the tolerance": {secret, signed, string(body), noon.Add(Tolerance), nil},
		"after the tolerance":         {secret, signed, string(body), noon.Add(Tolerance + time.Second), ErrStale},
		"signed in the future":        {secret, signed, string(body), noon.Add(-Tolerance - time.Second), ErrStale},
		"another amount": {secret, signed, strings.Replace(string(body), "1250", "1", 1), noon,
			ErrSignature},
		"a time that was not signed":  {secret, "t=1795371889," + signature, string(body), noon, ErrSignature},
		"the secret of somebody else": {[]byte("another"), signed, string(body), noon, ErrSignature},
		"a receiver without a secret": {nil, Sign(nil, body, noon), string(body), noon, ErrSignature},
		"no header":                   {secret, "", string(body), noon, ErrSignature},
		"no signature":                {secret, at, string(body), noon, ErrSignature},
		"no time":                     {secret, signature, string(body), noon, ErrSignature},
		"two times":                   {secret, at + "," + signed, string(body), noon, ErrSignature},
		"half of the signature":       {secret, signed[:len(signed)-32], string(body), noon, ErrSignature},
		"a signature that is not hex": {secret, at + ",v1=zz", string(body), noon, ErrSignature},
		"an older scheme": {secret, at + ",v0=" + strings.TrimPrefix(signature, "v1="), string(body),
			noon, ErrSignature},
		"a second secret": {secret, at + ",v1=00," + signature, string(body), noon, nil},
		"spaces between":  {secret, at + ", " + signature, string(body), noon, nil},
		"too many signatures to try": {secret, at + strings.Repeat(",v1=00", maxSignatures) + "," + signature,
			string(body), noon, ErrSignature},
		"a header without end": {secret, signed + strings.Repeat(",v1=00", 1000), string(body), noon,
			ErrSignature},
		"a signed time that is no time": {secret, "t=soon,v1=" + hex.EncodeToString(mac(secret, "soon", body)),
			string(body), noon, ErrSignature},
	} {
		t.Run(name, func(t *testing.T) {
			if err := Verify(c.secret, c.header, []byte(c.body), c.now); !errors.Is(err, c.want) {
				t.Errorf("got %v; want %v", err, c.want)
			}
		})
	}
}

// Signatures follow Stripe's scheme: HMAC-SHA256 of the time, a dot and the body. The expected value
// comes from another implementation (openssl dgst -sha256 -hmac).
func TestSignatureIsTheOneOfStripe(t *testing.T) {
	got := Sign([]byte("secret"), []byte(`{"a":1}`), time.Unix(1700000000, 0))
	if want := "t=1700000000,v1=" + opensslSays; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

func TestParseEventRefusesWhatIsNoEvent(t *testing.T) {
	good := string(someEvent(t))
	if e, err := ParseEvent([]byte(good)); err != nil || e.ID != "evt_1" || e.Payment.Amount != 1250 ||
		e.Payment.Reference != "hold-1" {
		t.Fatalf("got %+v, %v", e, err)
	}
	if _, err := ParseEvent([]byte(strings.Replace(good, `{"id"`, `{"livemode":false,"id"`, 1))); err != nil {
		t.Errorf("a field that was added later: %v", err)
	}
	for _, body := range []string{ // valid: the shop asks the provider for the other fields
		`{"id":"evt_1","type":"payment.captured","payment":{"id":"pay_1"}}`,
		`{"id":"evt_1","type":"customer.created"}`,
	} {
		if _, err := ParseEvent([]byte(body)); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	for name, body := range map[string]string{
		"nothing":            "",
		"null":               "null",
		"a list":             "[]",
		"half of it":         good[:len(good)/2],
		"two of them":        good + good,
		"no id":              strings.Replace(good, "evt_1", "", 1),
		"an id with a space": strings.Replace(good, "evt_1", "evt 1", 1),
		"no type":            strings.Replace(good, string(EventCaptured), "", 1),
		"no payment":         `{"id":"evt_1","type":"payment.captured"}`,
		"no payment's id":    strings.Replace(good, "pay_1", "", 1),
		"a line feed in it":  strings.Replace(good, "pay_1", `pay\n1`, 1),
		"a huge number":      strings.Replace(good, "1250", "1e400", 1),
		"too large an int":   strings.Replace(good, "1250", "99999999999999999999", 1),
		"a fraction":         strings.Replace(good, "1250", "12.5", 1),
		"not UTF-8":          strings.Replace(good, "hold-1", "hold-\xff", 1),
		"too long":           good + strings.Repeat(" ", MaxEvent),
	} {
		if e, err := ParseEvent([]byte(body)); !errors.Is(err, ErrEvent) {
			t.Errorf("%s: got %+v, %v; want ErrEvent", name, e, err)
		}
	}
}

// Verify never accepts an unsigned body. It refuses a signed body if one bit of the body, the time or
// the secret has changed.
func FuzzVerify(f *testing.F) {
	body := someEvent(f)
	f.Add(Sign(secret, body, noon), body, noon.Unix(), uint(3))
	f.Add("t=,v1=", []byte{}, int64(0), uint(0))
	f.Add("t=-1,v1=00,v1=,t", []byte("x"), int64(-1), uint(9))
	f.Add("t=9223372036854775807,v1=zz", []byte("{}"), int64(1)<<40, uint(70))
	f.Fuzz(func(t *testing.T, header string, body []byte, sec int64, bit uint) {
		now := time.Unix(sec%(1<<40), 0)
		if err := Verify(secret, header, body, now); err == nil {
			at, _, _ := parseSignature(header)
			if !strings.Contains(header, hex.EncodeToString(mac(secret, at, body))) {
				t.Fatalf("accepted %q, which has no valid signature", header)
			}
		} else if !errors.Is(err, ErrSignature) && !errors.Is(err, ErrStale) {
			t.Fatalf("an error of its own: %v", err)
		}
		signed := Sign(secret, body, now)
		if err := Verify(secret, signed, body, now); err != nil {
			t.Fatalf("refused its own signature %q: %v", signed, err)
		}
		if len(body) > 0 {
			other := append([]byte(nil), body...)
			other[bit/8%uint(len(other))] ^= 1 << (bit % 8)
			if err := Verify(secret, signed, other, now); !errors.Is(err, ErrSignature) {
				t.Fatalf("a changed body: %v", err)
			}
		}
		later := fmt.Sprintf("t=%d,", now.Unix()+1) + signed[strings.Index(signed, "v1="):]
		if err := Verify(secret, later, body, now); !errors.Is(err, ErrSignature) {
			t.Fatalf("a changed time: %v", err)
		}
	})
}

const opensslSays = "49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686"
