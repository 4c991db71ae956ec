package sequence

import "slices"

// MedianLength is the median of lengths, which it sorts: of an even number the
// mean of the two in the middle, rounded down; 0 of none.
func MedianLength(lengths []int) int {
	n := len(lengths)
	if n == 0 {
		return 0
	}
	slices.Sort(lengths)
	low, high := lengths[(n-1)/2], lengths[n/2]
	return low + (high-low)/2
}
