package main

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"oversell/internal/web"
)

// docker-compose.yml sets only variables that the program reads, to values that it accepts, and
// publishes ports only to this machine.
func TestComposeRunsTheProgram(t *testing.T) {
	text, err := os.ReadFile("../../docker-compose.yml")
	must(t, err)
	var compose struct {
		Services map[string]struct {
			Environment map[string]string
			Ports       []string
		}
	}
	must(t, yaml.Unmarshal(text, &compose))
	for name, s := range compose.Services {
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s to everybody", name, port)
			}
		}
	}
	var variables []string
	flags(new(options), new(string)).VisitAll(func(f *flag.Flag) {
		variables = append(variables, envPrefix+"_"+strings.ToUpper(f.Name))
	})
	withDefault := regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`) // a variable that the user may set, with its default
	for name, value := range compose.Services["shop"].Environment {
		if !slices.Contains(variables, name) {
			t.Errorf("%s is set, and the program reads %v", name, variables)
		}
		t.Setenv(name, withDefault.ReplaceAllString(value, "$1"))
	}
	o, err := parse(nil)
	if err != nil {
		t.Fatalf("the program refuses what is set: %v", err)
	}
	hosts, err := web.ParseHosts(o.hosts)
	want := []string{"localhost", "127.0.0.1", "shop"} // the port is published, and Prometheus scrapes the shop
	if err != nil || !slices.Equal(hosts, want) || !strings.HasPrefix(o.Web.Addr, "0.0.0.0:") {
		t.Errorf("the shop listens on %s and is served under %q, %v; want %q", o.Web.Addr, hosts, err, want)
	}
}
