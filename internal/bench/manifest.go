package bench

import (
	"runtime"
	"slices"
	"time"

	"oversell/internal/build"
	"oversell/internal/locks"
)

// Where returns a manifest that says on what machine and on which backends, and
// not yet what is run there.
func Where(redis, db string) Manifest {
	return Manifest{
		Format:  format,
		Started: time.Now().UTC().Truncate(time.Second),
		Redis:   redis, DB: db,
		Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Version: build.Version(),
	}
}

// NewManifest says what cfg is run with, on the backends that are described by
// redis and db.
func NewManifest(cfg Config, redis, db string) Manifest {
	if !slices.ContainsFunc(cfg.Conditions, func(c locks.Condition) bool { return c != locks.Failover }) && len(cfg.Conditions) > 0 {
		cfg = cfg.forCondition(locks.Failover) // as every row is
	}
	cfg = cfg.WithDefaults()
	m := Where(redis, db)
	m.ID, m.Requests, m.Stock, m.Workload = cfg.ID, cfg.Requests, cfg.Stock, string(cfg.Workload)
	m.Instances, m.Targets = cfg.shops(), cfg.Targets
	m.Keys, m.SecondLook, m.Repeat = cfg.Keys, cfg.SecondLook, cfg.Repeat
	m.Keeper, m.Unfenced = cfg.Keeper, cfg.Unfenced
	m.Planned = len(cfg.Strategies) * len(cfg.Conditions) * cfg.Repeat
	if cfg.chaotic() {
		m.Seed, m.Keys = cfg.Seed, UniqueKeys
	}
	if cfg.Rate > 0 {
		m.Rate, m.Duration, m.InFlight = cfg.Rate, cfg.Duration.String(), cfg.InFlight
	}
	if len(cfg.Targets) == 0 {
		m.TTL, m.Work, m.Wait, m.Retry = cfg.TTL.String(), cfg.Work.String(), cfg.Wait.String(), cfg.Policy.String()
	}
	return m
}
