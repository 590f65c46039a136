package lockbench

import (
	"oversell/internal/catalog"
	"oversell/internal/guard"
)

// policies are the waiting policies for locks that have none of their own.
func policies() []string {
	return []string{"line:2ms", "fixed:50ms", "fixed:5ms", "backoff:1ms-64ms"}
}

const ownQueue = "its own queue"

// stages are the locks of package locks, those that need other servers as well: with each
// policy, unless they wait in their own way.
func stages() Catalog {
	var all Catalog
	for _, s := range catalog.Strategies() {
		switch {
		case s.Kind != catalog.Guarded || s.Name == "none" || s.Name == "local": // no lock across processes
		case s.Extra && !s.Needs.OfServers(): // a library, which has contenders of its own
		case s.OwnWait:
			all = append(all, Contender{
				Name: s.Name, Waits: ownQueue, About: s.Adds, Needs: s.Needs,
				Make: stage(s, func() (guard.Policy, error) { return nil, nil }),
			})
		default:
			for _, policy := range policies() {
				all = append(all, Contender{
					Name: s.Name + "+" + policy, Waits: policy, About: s.Adds, Needs: s.Needs,
					Make: stage(s, func() (guard.Policy, error) { return guard.ParsePolicy(policy) }),
				})
			}
		}
	}
	return all
}

// stage makes a strategy's guard with a waiting policy.
func stage(s catalog.Strategy, policy func() (guard.Policy, error)) func(Process) (guard.Guard, error) {
	return func(p Process) (guard.Guard, error) {
		wait, err := policy()
		if err != nil {
			return nil, err
		}
		return s.NewGuard(p.options(wait)), nil
	}
}
