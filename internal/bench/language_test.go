package bench

import (
	"regexp"
	"testing"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/page/texts"
)

// Every way in which a row under chaos can differ from the expectation is translated into Chinese.
func TestChaosDifferencesAreToldInChinese(t *testing.T) {
	l, err := texts.OfBench("zh")
	if err != nil {
		t.Fatal(err)
	}
	differs := chaosDiffers(catalog.Leeway{}, &report.Chaos{
		Missing: 1, Duplicates: 2, Foreign: 3, Oversold: 4, Stranded: 5, Remaining: 6,
		Faults: []report.Fault{
			{Kind: "redis-oom", At: 1.5, Again: new(9.25), Limit: 2},
			{Kind: "shop-kill", At: 2, Limit: 5},
			{Kind: "db-kill", At: 3, Skipped: true, Error: "EOF"},
		},
	})
	told := differs.Translate(l.Say)
	for _, word := range regexp.MustCompile(`[A-Za-z]{2,}[\w-]*`).FindAllString(told, -1) {
		if !regexp.MustCompile(`^(redis-oom|shop-kill|db-kill|EOF)$`).MatchString(word) {
			t.Errorf("%q is left of %q in %q", word, differs.String(), told)
		}
	}
}
