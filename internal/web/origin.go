package web

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"oversell/internal/problem"
)

// sheltered turns away what other sites have a visitor's browser do. A browser
// says from which site a request comes that changes something; who is no browser
// does not, and is let through.
//
// A site can also give its own name this machine's address, and is then, to a
// browser, where the page comes from. A shop that listens on this machine alone, and
// asks for no token, is therefore known by the machine's own names only.
func (a *API) sheltered(h http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem.Reply(w, http.StatusForbidden, "cross_origin", "another site may not send this")
	}))
	h = origin.Handler(h)
	if a.cfg.Token != "" || !local(a.cfg.Addr) {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !local(r.Host) {
			problem.Reply(w, http.StatusForbidden, "wrong_host", "this shop is for its own machine: it goes by localhost, 127.0.0.1 and [::1]")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// local reports whether an address, with a port or without, is of this machine
// alone.
func local(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}
