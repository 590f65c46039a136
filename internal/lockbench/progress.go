package lockbench

// Progress is told how far a run is. Its methods are called from one goroutine
// at a time.
type Progress interface {
	// Row begins row n of all.
	Row(n, all int, contender string)
	// Waiting gives a function that returns how many outcomes of the row are
	// still awaited. It is safe to be called until the next Row, and always.
	Waiting(waiting func() int64)
	// Done gives a row that is finished.
	Done(row Row)
}

// Silent is a Progress that shows nothing.
type Silent struct{}

// Row implements Progress.
func (Silent) Row(int, int, string) {}

// Waiting implements Progress.
func (Silent) Waiting(func() int64) {}

// Done implements Progress.
func (Silent) Done(Row) {}
