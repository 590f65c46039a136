package lockservers

import (
	"testing"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/locks/lease/leasetest"
)

func TestLeaseIsWhatTheServerGives(t *testing.T) {
	etcd := Terms{Least: 2 * time.Second, Unit: time.Second}
	for _, tt := range []struct {
		terms     Terms
		ttl, want time.Duration
	}{
		{Terms{}, 300 * time.Millisecond, 300 * time.Millisecond},
		{etcd, 300 * time.Millisecond, 2 * time.Second},
		{etcd, 2 * time.Second, 2 * time.Second},
		{etcd, 2001 * time.Millisecond, 3 * time.Second},
		{Terms{Least: time.Second}, 300 * time.Millisecond, time.Second},
		{Terms{Least: time.Second}, 1500 * time.Millisecond, 1500 * time.Millisecond},
	} {
		if got := tt.terms.Lease(tt.ttl); got != tt.want {
			t.Errorf("%+v, ttl %v: a lease of %v, want %v", tt.terms, tt.ttl, got, tt.want)
		}
	}
}

// Ask returns the terms of the running servers.
func TestServersAreAskedForTheirTerms(t *testing.T) {
	terms, err := Ask(t.Context(), Addresses{catalog.NeedsEtcd: {leasetest.Etcd(t)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := terms[catalog.NeedsEtcd]; got.Least != time.Second || got.Unit != time.Second || got.Slack < time.Second {
		t.Errorf("etcd: %+v", got)
	}
	terms, err = Ask(t.Context(), Addresses{catalog.NeedsZooKeeper: {leasetest.ZooKeeper(t)}})
	if err != nil {
		t.Fatal(err)
	}
	const lease = 1500 * time.Millisecond
	if got := terms[catalog.NeedsZooKeeper]; got.Least != time.Second || got.Lease(lease) != lease {
		t.Errorf("zookeeper: %+v", got)
	}
}
