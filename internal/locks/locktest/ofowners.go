package locktest

// ofOwners returns the promises of a lock whose owners have names and can re-enter it.
func ofOwners() []promise {
	return applying(func(l Lock) bool { return l.WithOwner != nil }, []promise{
		{name: "the owner counts, not the handle", scenario: ownerCounts},
		{name: "a lock without an owner is refused", scenario: unnamed},
		{name: "a failed re-entry does not release the outer hold", scenario: failedReentry},
	})
}

func ownerCounts(w *World) {
	outer, other := w.Holder("a"), w.Holder("b")
	inner := outer.Sibling("a")
	outer.MustLock()
	w.Expect(inner.TryLock(), "the owner waits for itself")
	w.Expect(!other.Unlock(), "another owner releases the lock")
	w.Expect(outer.Mutex.Unlock(other.Ctx) != nil, "another owner releases the lock with the owner's handle")
	outer.MustUnlock()
	w.Expect(!other.TryLock(), "an Unlock for each hold is not needed")
	inner.MustUnlock()
	other.MustLock()
}

func unnamed(w *World) {
	a := w.Holder("a")
	sent := a.Hook.Count(Any)
	for what, ctx := range map[string]func() error{
		"TryLock": func() error { _, err := a.Mutex.TryLock(w.ctx); return err },
		"Unlock":  func() error { return a.Mutex.Unlock(w.lock.WithOwner(w.ctx, "")) },
		"Lock":    func() error { return a.lock(w.ctx) },
	} {
		w.Expect(ctx() != nil, "%s without an owner succeeds", what)
	}
	w.Expect(sent.Hits() == 0, "%d commands were sent", sent.Hits())
}

// The re-entry fails before it reaches Redis. The caller does not know that, and undoes
// the re-entry.
func failedReentry(w *World) {
	outer, other := w.Holder("a"), w.Holder("b")
	inner := outer.Sibling("a")
	outer.MustLock()
	rule := outer.Hook.On(Any, 1, Fail(ErrCut))
	_, _ = inner.Mutex.TryLock(inner.Ctx)
	rule.Off()
	inner.Unlock()
	w.Expect(!other.TryLock(), "a second holder came in")
}
