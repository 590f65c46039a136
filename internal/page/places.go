package page

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// The streams of events that are open at once.
const (
	maxStreams        = 64 // of clients that do not show the token
	maxAddressStreams = 16 // the same, of one address
	maxOwnerStreams   = 16 // of clients that show the token
)

var (
	errManyStreams = fmt.Errorf("%d others are looking, and no more can", maxStreams)
	errAddressFull = fmt.Errorf("%d others at this address are looking, and no more can", maxAddressStreams)
	errManyOwners  = fmt.Errorf("%d others are looking with the token, and no more can", maxOwnerStreams)
)

// places bounds the streams that are open at once. Those of clients that show the token are
// counted by themselves, so that nobody without it can keep the owner of a shop out. It is
// safe for concurrent use.
type places struct {
	mu        sync.Mutex
	owners    int
	visitors  int
	addresses map[string]int // of the visitors
}

// take takes a place until leave is called.
func (p *places) take(r *http.Request, owner bool) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if owner {
		if p.owners >= maxOwnerStreams {
			return nil, errManyOwners
		}
		p.owners++
		return p.leaving(func() { p.owners-- }), nil
	}
	from := origin(r)
	switch {
	case p.addresses[from] >= maxAddressStreams:
		return nil, errAddressFull
	case p.visitors >= maxStreams:
		return nil, errManyStreams
	}
	if p.addresses == nil {
		p.addresses = make(map[string]int)
	}
	p.visitors++
	p.addresses[from]++
	return p.leaving(func() {
		p.visitors--
		if p.addresses[from]--; p.addresses[from] == 0 {
			delete(p.addresses, from)
		}
	}), nil
}

func (p *places) leaving(leave func()) func() {
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		leave()
	})
}

// origin names where a request comes from: its address, or the network of an address of
// IPv6, of which a client has many. What a proxy says of it is not believed.
func origin(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap(); ip.Is4() {
		return ip.String()
	}
	network, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return ip.String()
	}
	return network.String()
}
