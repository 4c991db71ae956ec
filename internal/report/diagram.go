package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/compare"
)

// diagram is a critical-difference diagram: methods on an axis of average ranks, bars
// over methods that do not differ. Coordinates are pixels.
type diagram struct {
	Width, Height, Axis float64
	Tick, TickText      float64 // ends of ticks, and their numbers
	From, To            float64 // ends of the axis
	Ticks               []mark
	CD                  line2
	CDLabel             string
	Methods             []branch
	Bars                []line2
}

type mark struct {
	X     float64
	Label string
}

type line2 struct{ X, To, Y float64 }

// branch leads from a method's rank to its name at one side.
type branch struct {
	X, Y, Side, Text float64
	Anchor, Label    string
}

// diagramOf draws a ranking; nil if there is no critical difference.
func diagramOf(c *compare.Ranking) *diagram {
	if c.CD == 0 {
		return nil
	}
	const width, side, axis, row, bar = 720, 180, 64, 20, 7
	k := len(c.Methods)
	d := &diagram{Width: width, Axis: axis, Tick: axis - 8, TickText: axis - 13, From: side, To: width - side}
	x := func(rank float64) float64 { return side + (rank-1)/float64(k-1)*(width-2*side) }
	for i := range k {
		d.Ticks = append(d.Ticks, mark{x(float64(i + 1)), fmt.Sprint(i + 1)})
	}
	d.CD = line2{side, min(x(1+c.CD), width-4), 21}
	d.CDLabel = fmt.Sprintf("critical difference %.2f", c.CD)

	order := make([]int, k)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.Ranks[a], c.Ranks[b]) })
	d.Bars = bars(c, order, x, axis+10, bar)
	top := axis + 14 + float64(bar*len(d.Bars))
	half := (k + 1) / 2
	for at, i := range order {
		b := branch{X: x(c.Ranks[i]), Label: fmt.Sprintf("%s  %.2f", c.Methods[i], c.Ranks[i])}
		if at < half {
			b.Y, b.Side, b.Text, b.Anchor = top+row*float64(at+1), side-12, side-18, "end"
		} else {
			b.Y, b.Side, b.Text, b.Anchor = top+row*float64(k-at), width-side+12, width-side+18, "start"
		}
		d.Methods = append(d.Methods, b)
	}
	d.Height = top + row*float64(half) + 14
	return d
}

// bars cover the largest groups of two or more methods within the critical
// difference.
func bars(c *compare.Ranking, order []int, x func(float64) float64, y, step float64) (bars []line2) {
	covered := 0 // methods in bars so far, from the best
	for from := range order {
		to := from + 1
		for to < len(order) && c.Ranks[order[to]]-c.Ranks[order[from]] < c.CD {
			to++
		}
		if to-from > 1 && to > covered {
			covered = to
			bars = append(bars, line2{x(c.Ranks[order[from]]) - 4, x(c.Ranks[order[to-1]]) + 4, y + step*float64(len(bars))})
		}
	}
	return bars
}

// scatter is one method's accuracy against another's, a point per data set.
type scatter struct {
	Title, XLabel, YLabel    string
	Size, Lo, Hi             float64 // of the square, and its corners in pixels
	Ticks                    []scatterTick
	Points                   []point
	Wins, Draws, Losses, All int
}

type scatterTick struct {
	X, Y  float64 // on the axes below and on the left
	Label string
}

type point struct {
	X, Y   float64
	Title  string
	Label  string // next to points far from the diagonal
	LabelX float64
	Anchor string
}

// scatterPlot draws the common data sets of both methods; nil if there are none.
func scatterPlot(datasets []string, xs, ys compare.Method) *scatter {
	const size, left, right = 300, 46, 10
	s := &scatter{Title: ys.Name + " against " + xs.Name, XLabel: xs.Name, YLabel: ys.Name, Size: size, Lo: left, Hi: size - right}
	type pair struct {
		dataset string
		x, y    float64
	}
	var pairs []pair
	least := 1.0
	for _, d := range datasets {
		x, okX := xs.Accuracy(d)
		y, okY := ys.Accuracy(d)
		if okX && okY {
			pairs = append(pairs, pair{d, x, y})
			least = min(least, x, y)
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	tenths := min(9, int(math.Floor(least*10)))
	low := float64(tenths) / 10
	at := func(v float64) float64 { return left + (v-low)/(1-low)*(size-left-right) }
	for i := tenths; i <= 10; i++ {
		s.Ticks = append(s.Ticks, scatterTick{at(float64(i) / 10), size - at(float64(i)/10), fmt.Sprintf("%.1f", float64(i)/10)})
	}
	for _, p := range pairs {
		q := point{X: at(p.x), Y: size - at(p.y), Title: fmt.Sprintf("%s: %.3f against %.3f", p.dataset, p.y, p.x)}
		if math.Abs(p.x-p.y) >= .05 {
			q.Label, q.LabelX, q.Anchor = p.dataset, q.X+7, "start"
			if q.X > size/2 {
				q.LabelX, q.Anchor = q.X-7, "end"
			}
		}
		s.Points = append(s.Points, q)
		switch {
		case p.y > p.x:
			s.Wins++
		case p.y < p.x:
			s.Losses++
		default:
			s.Draws++
		}
	}
	s.All = len(pairs)
	return s
}
