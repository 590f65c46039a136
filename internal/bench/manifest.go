package bench

import (
	"runtime"
	"time"

	"oversell/internal/build"
)

// NewManifest says what cfg is run with, on the backends that are described by
// redis and db.
func NewManifest(cfg Config, redis, db string) Manifest {
	cfg = cfg.WithDefaults()
	m := Manifest{
		Started: time.Now().UTC().Truncate(time.Second),
		Redis:   redis, DB: db,
		Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Version:  build.Version(),
		Requests: cfg.Requests, Stock: cfg.Stock, Workload: string(cfg.Workload),
		Instances: cfg.shops(), Targets: cfg.Targets,
		Keys: cfg.Keys, SecondLook: cfg.SecondLook,
	}
	if len(cfg.Targets) == 0 {
		m.TTL, m.Work, m.Wait, m.Retry = cfg.TTL.String(), cfg.Work.String(), cfg.Wait.String(), cfg.Policy.String()
	}
	return m
}
