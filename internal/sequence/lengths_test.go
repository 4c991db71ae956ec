package sequence

import "testing"

func TestMedianLength(t *testing.T) {
	for _, c := range []struct {
		of   []int
		want int
	}{{nil, 0}, {[]int{7}, 7}, {[]int{9, 2}, 5}, {[]int{5, 1, 3}, 3}, {[]int{8, 1, 4, 5}, 4}} {
		if got := MedianLength(c.of); got != c.want {
			t.Errorf("%v: got %d, want %d", c.of, got, c.want)
		}
	}
}
