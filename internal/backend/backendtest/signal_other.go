//go:build !unix

package backendtest

import "oversell/internal/proc"

// Stop is not supported on this system.
func (r *LocalRedis) Stop() error { return proc.ErrUnsupported }

// Cont is not supported on this system.
func (r *LocalRedis) Cont() error { return proc.ErrUnsupported }

// Stop is not supported on this system.
func (d *LocalDatabase) Stop() error { return proc.ErrUnsupported }

// Cont is not supported on this system.
func (d *LocalDatabase) Cont() error { return proc.ErrUnsupported }
