package page_test

import (
	"context"
	"io"
	"os"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
)

func TestMain(m *testing.M) {
	backendtest.Play(func(ctx context.Context, _ string, in io.Reader, out, log io.Writer) error {
		return bench.Serve(ctx, in, out, log, nil)
	})
	os.Exit(backendtest.Main(m))
}

// must ends the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
