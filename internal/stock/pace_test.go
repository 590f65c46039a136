package stock

import (
	"testing"
	"time"
)

func TestPaceFollowsTheDatabase(t *testing.T) {
	p := newPace(512)
	for range 10 {
		p.wrote(p.size(), time.Duration(p.size())*10*time.Microsecond)
	}
	if n := p.size(); n != 512 {
		t.Errorf("%d orders in a statement while each takes 10µs, want 512", n)
	}
	p.wrote(512, 512*50*time.Millisecond)
	if n := p.size(); n != 10 {
		t.Errorf("%d orders in a statement while each takes 50ms, want 10: half a second's", n)
	}
	p.wrote(10, 2*dbTimeout)
	if n := p.size(); n != 1 {
		t.Errorf("%d orders in a statement while one takes a second, want 1", n)
	}
	for range 10 {
		p.wrote(p.size(), time.Millisecond)
	}
	if n := p.size(); n != 512 {
		t.Errorf("%d orders in a statement when the database is fast again, want 512", n)
	}
	p.wrote(1, time.Second)
	p.wrote(0, 0) // nobody was served
	if n := newPace(4).size(); n != 4 {
		t.Errorf("%d orders in the first statement, want no more than allowed", n)
	}
}
