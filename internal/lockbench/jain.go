package lockbench

// Jain returns how evenly something was given out to n: the square of the sum,
// divided by n times the sum of the squares. It is 1 when all have got the same,
// 1/n when one has got all, and k/n when k have got the same and the others
// nothing. It is 0, by convention of this package, when nothing was given out.
//
// Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and
// Discrimination for Resource Allocation in Shared Computer Systems", Digital
// Equipment Corporation, DEC-TR-301, 1984.
func Jain(given []int) float64 {
	var sum, squares float64
	for _, n := range given {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(given)) * squares)
}
