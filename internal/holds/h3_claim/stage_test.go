package hold

import (
	"os"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/holds"
	"oversell/internal/holds/holdstest"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }

func stage(b holds.Backends) holds.Stage { return New(b) }

func TestHoldsInCalm(t *testing.T) { holdstest.Each(t, 3, stage, holdstest.Calm) }

func TestExpiresInTime(t *testing.T) { holdstest.Each(t, 1, stage, holdstest.InTime) }
