package lockbench

// Progress receives the progress of a run. Its methods are called from one goroutine at a
// time.
type Progress interface {
	// Row begins row n of all.
	Row(n, all int, contender string)
	// Waiting gets a function that returns how many outcomes of the row are missing. It may
	// always be called.
	Waiting(waiting func() int64)
	// Done gets a finished row.
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
