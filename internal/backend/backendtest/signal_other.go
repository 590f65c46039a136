//go:build !unix

package backendtest

import "oversell/internal/fleet"

// Stop is not supported on this system.
func (r *LocalRedis) Stop() error { return fleet.ErrUnsupported }

// Cont is not supported on this system.
func (r *LocalRedis) Cont() error { return fleet.ErrUnsupported }

// Stop is not supported on this system.
func (d *LocalDatabase) Stop() error { return fleet.ErrUnsupported }

// Cont is not supported on this system.
func (d *LocalDatabase) Cont() error { return fleet.ErrUnsupported }
