package main

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"oversell/internal/backend"
	"oversell/internal/web"
)

// compose is the part of docker-compose.yml that the tests check.
type compose struct {
	Services map[string]struct {
		Image       string
		Profiles    []string
		Environment map[string]string
		Ports       []string
		DependsOn   map[string]struct{ Condition string } `yaml:"depends_on"`
		Healthcheck struct{ Test []string }
	}
}

func readCompose(t *testing.T) compose {
	t.Helper()
	text, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// environment names the variables that the program reads.
func environment() []string {
	var names []string
	flags(new(options), new(string)).VisitAll(func(f *flag.Flag) {
		names = append(names, envPrefix+"_"+strings.ToUpper(f.Name))
	})
	return names
}

// withDefault matches a variable of the user with a default, as compose writes it.
var withDefault = regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`)

func TestComposeSetsWhatTheProgramReads(t *testing.T) {
	env := readCompose(t).Services["shop"].Environment
	for name, value := range env {
		if !slices.Contains(environment(), name) {
			t.Errorf("%s is set, and the program reads %v", name, environment())
		}
		t.Setenv(name, withDefault.ReplaceAllString(value, "$1"))
	}
	o, err := parse(nil)
	if err != nil {
		t.Fatalf("the program refuses what is set: %v", err)
	}
	if !strings.HasPrefix(o.Web.Addr, "0.0.0.0:") {
		t.Errorf("the shop listens on %s, which cannot be reached from outside its container", o.Web.Addr)
	}
	hosts, err := web.ParseHosts(o.hosts)
	if want := []string{"localhost", "127.0.0.1", "shop"}; err != nil || !slices.Equal(hosts, want) {
		t.Errorf("the shop is served under %q, %v; its port is published and Prometheus asks under %q", hosts, err, want)
	}
	redis, err := backend.ServeRedis(t.Context(), o.redis)
	if err != nil || redis.URL != o.redis {
		t.Errorf("-redis %s: %v", o.redis, err)
	}
	db, err := backend.ServeDatabase(t.Context(), o.db)
	if err != nil || db.URL != o.db {
		t.Errorf("-db: %v", err)
	}
	database := readCompose(t).Services["mysql"].Environment
	for _, part := range []string{database["MYSQL_USER"] + ":" + database["MYSQL_PASSWORD"] + "@", "tcp(mysql:3306)", "/" + database["MYSQL_DATABASE"]} {
		if !strings.Contains(env["OVERSELL_DB"], part) {
			t.Errorf("OVERSELL_DB is %s, and lacks %s", env["OVERSELL_DB"], part)
		}
	}
}

func TestComposePublishesOnTheLoopbackInterfaceOnly(t *testing.T) {
	services := readCompose(t).Services
	var plain []string // without a profile
	for name, s := range services {
		if len(s.Profiles) == 0 {
			plain = append(plain, name)
		}
	}
	slices.Sort(plain)
	if want := []string{"mysql", "redis", "shop"}; !slices.Equal(plain, want) {
		t.Errorf("docker compose up starts %v, want %v", plain, want)
	}
	for name, s := range services {
		if len(s.Ports) == 0 {
			t.Errorf("%s publishes nothing", name)
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s to everybody", name, port)
			}
		}
	}
}

func TestComposeWaitsUntilABackendIsWell(t *testing.T) {
	services := readCompose(t).Services
	for name, s := range services {
		if len(s.Profiles) > 0 {
			continue // nobody who buys waits for it
		}
		if len(s.Healthcheck.Test) == 0 {
			t.Errorf("%s has no health check", name)
		}
		if name == "shop" {
			continue
		}
		if got := services["shop"].DependsOn[name].Condition; got != "service_healthy" {
			t.Errorf("the shop waits until %s is %q, want service_healthy", name, got)
		}
	}
}

// The image has no shell: what it runs must be the program with its own flags.
func TestImageRunsTheProgramAsNobody(t *testing.T) {
	text, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`ENTRYPOINT ["/shop"]`, `CMD ["/shop", "-check"]`, ":nonroot", "CGO_ENABLED=0", "./cmd/shop", "ENV OVERSELL_ADDR=0.0.0.0:8080"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the Dockerfile lacks %s", part)
		}
	}
	goMod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(goMod))
	if version == nil || !strings.Contains(string(text), "golang:"+version[1]) {
		t.Errorf("the Dockerfile builds with another Go than go.mod asks for: %v", version)
	}
	if got := readCompose(t).Services["shop"].Healthcheck.Test; !slices.Equal(got, []string{"CMD", "/shop", "-check"}) {
		t.Errorf("the health check is %q", got)
	}
}
