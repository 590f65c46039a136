package search

import (
	"os"
	"testing"

	"oversell/internal/backend/backendtest"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }
