package lab

import (
	"errors"
	"testing"
)

func TestBriefIsOneLine(t *testing.T) {
	lost := errors.Join(errors.New("the lock is lost"), errors.New("the server is away"))
	if got, want := Brief(lost), "the lock is lost; the server is away"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
