package fit

// coarse is how many points the first round of a search takes at most.
const coarse = 5

// search minimises eval over the indices 0..n-1 of an ascending grid and
// returns the best index. Every evaluation may cost a factorisation, so it
// does not try them all: a first round spreads up to five points evenly over
// the whole grid, then the spacing is halved again and again and only the
// neighbours of the best so far are tried. For the 19 default alphas: every
// second decade, then the neighbouring decades, then the half decades; nine
// evaluations. It finds the minimum of any error that falls and then rises,
// which leave-one-out errors in log alpha do in practice; elsewhere it finds
// the lowest valley that the first round saw. If errors are equal, the first one
// tried wins.
func search(n int, eval func(i int) (float64, error)) (int, error) {
	step, start := firstRound(n)
	best, least := -1, 0.0
	try := func(i int) error {
		e, err := eval(i)
		if err == nil && (best < 0 || e < least) {
			best, least = i, e
		}
		return err
	}
	for i := start; i < n; i += step {
		if err := try(i); err != nil {
			return 0, err
		}
	}
	for step /= 2; step > 0; step /= 2 {
		centre := best
		for _, i := range [2]int{centre - step, centre + step} {
			if i < 0 || i >= n {
				continue
			}
			if err := try(i); err != nil {
				return 0, err
			}
		}
	}
	return best, nil
}

// firstRound is the spacing and the first index of the first round, which is
// centred on the grid.
func firstRound(n int) (step, start int) {
	step = 1
	for n/step > coarse {
		step *= 2
	}
	return step, (n - 1) % step / 2
}

// searchSteps is the most evaluations a search over n points makes.
func searchSteps(n int) int {
	step, start := firstRound(n)
	steps := (n - start + step - 1) / step
	for ; step > 1; step /= 2 {
		steps += 2
	}
	return steps
}
