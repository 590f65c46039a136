package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"oversell/internal/message"
	"oversell/internal/web/problem"
)

// protected guards against CSRF and DNS rebinding: it refuses requests that another site makes the
// browser of a visitor send.
//
// A browser says which site a request comes from. Requests that change something and come from
// another site are refused. Clients other than browsers do not say so, and are accepted.
//
// A site can also point its own name at the shop's address (DNS rebinding), so that the browser
// considers both the same site. Therefore the shop answers a request for an unknown host name only
// if it has the token, which such a site does not have.
func (a *API) protected(h http.Handler) http.Handler {
	origin := http.NewCrossOriginProtection()
	origin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem.Reply(w, http.StatusForbidden, "cross_origin", message.Text("requests from other sites are refused"))
	}))
	h = origin.Handler(h)
	names := knownNames(a.cfg.Addr, a.cfg.Hosts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff") // browsers must trust the Content-Type of every reply
		hasToken := a.cfg.Token != "" && problem.Authorized(r, a.cfg.Token)
		if !hasToken && !loopback(r.Host) && !slices.Contains(names, hostOf(r.Host)) {
			problem.Reply(w, http.StatusForbidden, "wrong_host",
				message.Text("the shop does not know the host name of this request: start it with -hosts NAME"))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// knownNames returns the configured names, and the host of addr, the address to listen on.
func knownNames(addr string, hosts []string) []string {
	var names []string
	for _, host := range hosts {
		names = append(names, hostOf(host))
	}
	host := hostOf(addr)
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return names // it listens on all addresses, so there is no name
	}
	return append(names, host)
}

// ParseHosts reads the names of a Config's Hosts, separated by commas.
func ParseHosts(text string) ([]string, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var hosts []string
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if err := checkHost(name); err != nil {
			return nil, fmt.Errorf("%q is not a host name: %w", name, err)
		}
		hosts = append(hosts, name)
	}
	return hosts, nil
}

func checkHost(name string) error {
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return nil
	}
	switch {
	case name == "":
		return errors.New("it is empty")
	case strings.Contains(name, "*"):
		return errors.New("every name must be given in full, without *")
	case strings.ContainsAny(name, ":/"):
		return errors.New("it must be the name alone, without scheme, port or path")
	case strings.ContainsAny(name, " \t\r\n?#@[]"):
		return errors.New("it has characters that a host name cannot have")
	}
	return nil
}

// loopback reports whether a host, with or without a port, is this machine.
func loopback(addr string) bool {
	host := hostOf(addr)
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// hostOf returns the host of an address, with or without a port, normalized for
// comparison.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
