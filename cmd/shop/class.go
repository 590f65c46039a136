package main

import (
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"oversell/internal/cmdline"
	"oversell/internal/page"
	"oversell/internal/shop"
	"oversell/internal/web"
)

// classToken is the length of a class's token. It is short because a teacher types it.
const classToken = 10

// withClass sets the defaults of a shop for a class, unless flags say otherwise: phones can reach
// it but cannot change anything, and the first sale has no lock.
func (o options) withClass(fs *flag.FlagSet) options {
	if !cmdline.Given(fs, "addr") {
		o.Web.Addr = "0.0.0.0:8080"
	}
	if !cmdline.Given(fs, "strategy") {
		o.Strategy = "none"
	}
	if !cmdline.Given(fs, "wait") {
		o.Stock.Wait = page.ClassWait
	}
	if o.Web.Token == "" {
		o.Web.Token = strings.ToLower(rand.Text()[:classToken])
	}
	return o
}

// sellTo configures a shop for a class. It calls ready with the URLs at which phones find the
// shop.
func (o options) sellTo(room *page.Class, cfg *shop.Config, ready func(addr, phones string)) error {
	hosts, err := o.classHosts()
	if err != nil {
		return err
	}
	cfg.Web.Hosts = hosts
	cfg.Item.Initial = page.ClassUnits
	cfg.Web.OneEach = true
	cfg.Stock.Work, cfg.Stock.Inside = room.Work, room.Inside
	cfg.Ready = func(addr string) {
		var phones []string // a machine may be in several networks
		for _, host := range hosts {
			phones = append(phones, classURL(host, addr))
		}
		if err := room.Open(phones[0]); err != nil {
			cfg.Logger.Error("the phones get no QR code", "error", err)
		}
		ready(addr, strings.Join(phones, " or "))
	}
	return nil
}

// classHosts returns the host names at which phones find the shop: those of -hosts, or else the
// address that the shop listens on. If it listens on all addresses, these are the addresses of this
// machine in its networks.
func (o options) classHosts() ([]string, error) {
	hosts, err := web.ParseHosts(o.hosts)
	if err != nil || len(hosts) > 0 {
		return hosts, err
	}
	host, _, err := net.SplitHostPort(o.Web.Addr)
	if err != nil {
		return nil, fmt.Errorf("-addr: %w", err)
	}
	if ip, err := netip.ParseAddr(host); host != "" && (err != nil || !ip.IsUnspecified()) {
		return []string{host}, nil
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("asking for the addresses of this machine: %w", err)
	}
	for _, a := range addrs {
		prefix, err := netip.ParsePrefix(a.String())
		if err == nil && prefix.Addr().Is4() && prefix.Addr().IsGlobalUnicast() {
			hosts = append(hosts, prefix.Addr().String())
		}
	}
	if len(hosts) == 0 { // the machine is in no network
		hosts = []string{"localhost"}
	}
	return hosts, nil
}

// classURL returns the URL for phones under a host name of the shop, which listens on addr.
func classURL(host, addr string) string {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "http://" + addr + "/#/shop/phone"
	}
	if _, withPort, err := net.SplitHostPort(host); err == nil && withPort != "" {
		return "http://" + host + "/#/shop/phone"
	}
	return "http://" + net.JoinHostPort(strings.Trim(host, "[]"), port) + "/#/shop/phone"
}

// welcomeClass prints the addresses and the token that the teacher needs.
func welcomeClass(stdout io.Writer, addr, phones, token string) {
	fmt.Fprintf(stdout, `The class is open. Show this page on the projector; it has a QR code for the phones:
  http://%s/#/shop/class
Phones: %s
Your token, for new sales and another strategy: %s
`, localAddr(addr), phones, token)
}
