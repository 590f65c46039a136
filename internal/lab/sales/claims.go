package sales

import "oversell/internal/lab"

// had claims that something was recorded of each of the actors.
func had(what string, names ...string) lab.Claim {
	missing := map[string]string{hasHold: "got no hold", wasTold: "was told nothing", hasOrder: "has no order", hasRefund: "has no refund"}[what]
	return func(w *lab.World) {
		for _, who := range names {
			lab.Need(w.Did(what, who), "%s %s", who, missing)
		}
	}
}
