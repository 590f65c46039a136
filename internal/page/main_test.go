package page_test

import (
	"testing"

	"oversell/internal/bench/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }
