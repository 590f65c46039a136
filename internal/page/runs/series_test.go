package runs

import "testing"

// A long row keeps few points, from its beginning to its end.
func TestLongRowKeepsFewPoints(t *testing.T) {
	for _, n := range []int{1, 99, 100, 101, 250, 20_000} {
		var s series
		for i := range n {
			s.add(Point{T: float64(i) * 50}, false)
		}
		s.add(Point{T: float64(n) * 50}, true)
		points := s.Points
		if len(points) > maxPoints || len(points) < min(n, maxPoints/3) || cap(points) > 2*maxPoints {
			t.Errorf("%d points of %d, room for %d", len(points), n+1, cap(points))
		}
		if points[0].T != 0 || points[len(points)-1].T != float64(n)*50 {
			t.Errorf("of %d points the first is at %v and the last at %v", n+1, points[0].T, points[len(points)-1].T)
		}
		widest := 0.0
		for i := range len(points) - 1 {
			gap := points[i+1].T - points[i].T
			if gap <= 0 {
				t.Fatalf("point %d comes %v ms after the one before", i+1, gap)
			}
			widest = max(widest, gap)
		}
		if even := float64(n) * 50 / float64(len(points)); widest > 4*even {
			t.Errorf("of %d points, two neighbours are %v ms apart; evenly it would be %v", n+1, widest, even)
		}
	}
}
