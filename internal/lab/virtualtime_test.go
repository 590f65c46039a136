package lab

import (
	"strings"
	"testing"
	"time"
)

func TestVirtualTime(t *testing.T) {
	start := time.Now()
	var passed time.Duration
	err := InVirtualTime(func() {
		began := time.Now()
		time.Sleep(24 * time.Hour)
		passed = time.Since(began)
	})
	if err != nil || passed != 24*time.Hour || time.Since(start) > 10*time.Second {
		t.Errorf("%v passed in %v: %v", passed, time.Since(start), err)
	}
	if err := InVirtualTime(func() { panic("out of order") }); err == nil ||
		!strings.Contains(err.Error(), "out of order") {
		t.Errorf("a panic was returned as %v", err)
	}
}
