package lockbench

import "oversell/internal/locks"

// policies are the ways of waiting for a lock that has none of its own.
func policies() []string {
	return []string{"line:2ms", "fixed:50ms", "fixed:5ms", "backoff:1ms-64ms"}
}

const ownQueue = "its own queue"

// stages are the locks of package locks: v1 to v6 with each policy, and v7 to v9.
func stages() Catalog {
	var all Catalog
	for _, s := range locks.Strategies() {
		switch {
		case s.Kind != locks.Guarded || s.Extra || s.Name == "none" || s.Name == "local": // no lock in Redis
		case s.OwnWait:
			all = append(all, Contender{
				Name: s.Name, Waits: ownQueue, About: s.Adds,
				Make: stage(s, func() (locks.Policy, error) { return locks.Blocking{}, nil }),
			})
		default:
			for _, policy := range policies() {
				all = append(all, Contender{
					Name: s.Name + "+" + policy, Waits: policy, About: s.Adds,
					Make: stage(s, func() (locks.Policy, error) { return locks.ParsePolicy(policy) }),
				})
			}
		}
	}
	return all
}

// stage makes a strategy's guard, which has a policy of its own.
func stage(s locks.Strategy, policy func() (locks.Policy, error)) func(Process) (locks.Guard, error) {
	return func(p Process) (locks.Guard, error) {
		wait, err := policy()
		if err != nil {
			return nil, err
		}
		return s.Guard(locks.Options{Redis: p.Redis, TTL: p.TTL, Policy: wait}), nil
	}
}
