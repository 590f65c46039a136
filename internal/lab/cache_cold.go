package lab

func cacheScenarios() []Scenario {
	return []Scenario{cacheStampede(), cacheInstances(), cacheSlowLoad(), cacheSecondLook(), cacheMissing()}
}

func cacheStampede() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "cache-stampede",
			Sentence: "A value that many want is not in the cache: all of them load it from the database at once.",
			Sequence: "One instance. Six readers want a value that is not in the cache. Its load takes a tenth of the ttl.",
			Source:   "the thundering herd: Nishtala et al., Scaling Memcache at Facebook (2013), leases",
		},
		record:    "BH- HHHHHHHHH HHH HHH",
		requires:  []claim{read(6)},
		senseless: needsCacheGuard,
		run: func(w *World) verdict {
			k := w.cold(w.TTL / 10)
			w.together(k.many(w.Start("A"), 6)...)
			return k.loads(1)
		},
	}
}

func cacheInstances() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "cache-load-per-instance",
			Sentence: "Each instance of the service loads the same value once: with a mutex in memory the database is asked as often as there are instances.",
			Sequence: "Two instances. Three readers on each want a value that is not in the cache. Its load takes a tenth of the ttl.",
			Source:   "a singleflight or mutex in the process, scaled out",
		},
		record:    "BB- HHHHHHHHH HHH HHH",
		requires:  []claim{read(6)},
		senseless: needsCacheGuard,
		run: func(w *World) verdict {
			k := w.cold(w.TTL / 10)
			w.together(append(k.many(w.Start("A"), 3), k.many(w.Start("B"), 3)...)...)
			return k.loads(1)
		},
	}
}

func cacheSlowLoad() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "cache-load-outlives-lease",
			Sentence: "The database is slow today: the load takes longer than the ttl, and the next reader begins a load of its own.",
			Sequence: "Two instances with a reader each. The load takes one and a half times the ttl.",
			Source:   "a lease shorter than the work, met where it hurts most: a database under load answers late",
		},
		record:    "BB- HBBBBHHHH BBH HHH",
		requires:  []claim{read(2)},
		senseless: needsCacheGuard,
		run: func(w *World) verdict {
			k := w.cold(w.TTL + w.TTL/2)
			w.together(append(k.many(w.Start("A"), 1), k.many(w.Start("B"), 1)...)...)
			return k.loads(1)
		},
	}
}

func cacheSecondLook() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "cache-no-second-look",
			Sentence: "Whoever gets the lock loads, without another look whether the value has come meanwhile: all load, one after the other. That is a flaw in the use: no lock helps.",
			Sequence: "One instance. Three readers want a value that is not in the cache. Who has the lock does not look again.",
			Source:   "the second check left out of double-checked locking",
		},
		record:    "BB- BBBBBBBBB BBB BBB",
		requires:  []claim{read(3), loaded(3)},
		senseless: needsCacheGuard,
		run: func(w *World) verdict {
			k := w.cold(w.TTL / 20)
			k.unwary = true
			w.together(k.many(w.Start("A"), 3)...)
			return k.loads(1)
		},
	}
}

func cacheMissing() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "cache-missing-key",
			Sentence: "A value that does not exist is never in the cache, so it is looked for in the database each time that somebody asks.",
			Sequence: "Five readers, one after the other, want a value that does not exist. The cache of this project keeps a marker for it.",
			Source:   "cache penetration: requests for ids that do not exist, as from a scan",
		},
		record:    "HH- HHHHHHHHH HHH HHH",
		requires:  []claim{read(5)},
		senseless: needsCacheGuard,
		run: func(w *World) verdict {
			k := w.cold(0)
			k.missing = true
			p := w.Start("A")
			r := k.reader(p)
			for range 5 {
				k.read(r, "A/1")
			}
			return k.loads(1)
		},
	}
}
