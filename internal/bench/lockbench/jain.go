package lockbench

// Jain returns how evenly n shares are distributed: the square of the sum, divided by n
// times the sum of the squares. It is 1 if all are equal, 1/n if one has everything, and
// k/n if k are equal and the others have nothing. By convention it is 0 if all are 0.
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
