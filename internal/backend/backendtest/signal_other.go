//go:build !unix

package backendtest

import "oversell/internal/child"

// Stop cannot halt a server here.
func (r *LocalRedis) Stop() error { return child.ErrUnsupported }

// Cont has nothing to let go on here.
func (r *LocalRedis) Cont() error { return child.ErrUnsupported }

// Stop cannot halt a server here.
func (d *LocalDatabase) Stop() error { return child.ErrUnsupported }

// Cont has nothing to let go on here.
func (d *LocalDatabase) Cont() error { return child.ErrUnsupported }
