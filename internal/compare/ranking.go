package compare

import (
	"cmp"
	"fmt"
	"math"
)

// Method is a classifier, and its accuracy (0 to 1) on a data set by name; false if there
// is none.
type Method struct {
	Name     string
	Accuracy func(dataset string) (float64, bool)
}

// Ranking compares several methods on their common data sets.
type Ranking struct {
	Title     string      `json:"title"`
	Methods   []string    `json:"methods"`
	Datasets  []string    `json:"datasets"`           // common data sets
	Missing   []string    `json:"left_out,omitempty"` // data sets that some methods lack
	Scores    [][]float64 `json:"-"`                  // accuracy, a row per data set
	Means     []float64   `json:"means"`              // of the accuracy, one per method
	Ranks     []float64   `json:"ranks"`              // means of the ranks, 1 is best
	Statistic float64     `json:"friedman,omitzero"`  // Friedman's chi-square; with P and CD for at least two data sets
	P         float64     `json:"p,omitzero"`
	CD        float64     `json:"critical_difference,omitzero"` // Nemenyi's, at .05
}

// Rank ranks methods. It returns nil if there is nothing to compare. Ranks and tests use
// accuracies as tables publish them, with three digits: equal table entries count as
// equal. Means use all digits.
func Rank(title string, datasets []string, methods []Method) *Ranking {
	r := &Ranking{Title: title}
	for _, m := range methods {
		r.Methods = append(r.Methods, m.Name)
	}
	for _, d := range datasets {
		var row []float64
		for _, m := range methods {
			if v, ok := m.Accuracy(d); ok {
				row = append(row, v)
			}
		}
		if len(row) < len(methods) {
			r.Missing = append(r.Missing, d)
			continue
		}
		r.Datasets, r.Scores = append(r.Datasets, d), append(r.Scores, row)
	}
	if len(methods) < 2 || len(r.Datasets) == 0 {
		return nil
	}
	published := roundScores(r.Scores)
	r.Means, r.Ranks = columnMeans(r.Scores), averageRanks(published)
	if len(r.Datasets) > 1 {
		r.Statistic, r.P = friedman(published)
		r.CD = criticalDifference(len(methods), len(r.Datasets))
	}
	return r
}

// roundScores rounds every score to three digits.
func roundScores(rows [][]float64) [][]float64 {
	out := make([][]float64, len(rows))
	for i, row := range rows {
		for _, v := range row {
			out[i] = append(out[i], math.Round(v*1000)/1000)
		}
	}
	return out
}

func columnMeans(rows [][]float64) []float64 {
	mean := make([]float64, len(rows[0]))
	for _, row := range rows {
		for j, v := range row {
			mean[j] += v / float64(len(rows))
		}
	}
	return mean
}

// Difference compares one method with another, over the data sets of a ranking.
type Difference struct {
	Method  string  `json:"method"`
	Against string  `json:"against"`
	Mean    float64 `json:"mean"`           // of the accuracy, Method minus Against
	Error   float64 `json:"standard_error"` // of Mean: over the data sets; 0 for a single data set
	Better  int     `json:"better"`         // data sets
	Equal   int     `json:"equal"`          // at three digits
	Worse   int     `json:"worse"`
}

// String returns the end of a sentence: "-0.0125 ± 0.0040 (8 better, 3 equal, 30 worse)".
func (d Difference) String() string {
	return fmt.Sprintf("%+.4f ± %.4f (%d better, %d equal, %d worse)", d.Mean, d.Error, d.Better, d.Equal, d.Worse)
}

// Difference compares methods i and j of the ranking.
func (r *Ranking) Difference(i, j int) Difference {
	d := Difference{Method: r.Methods[i], Against: r.Methods[j], Mean: r.Means[i] - r.Means[j]}
	squares := 0.0
	published := roundScores(r.Scores)
	for k, row := range r.Scores {
		e := row[i] - row[j] - d.Mean
		squares += float64(e * e)
		switch cmp.Compare(published[k][i], published[k][j]) {
		case 1:
			d.Better++
		case -1:
			d.Worse++
		default:
			d.Equal++
		}
	}
	if n := float64(len(r.Scores)); n > 1 {
		d.Error = math.Sqrt(squares / (n * (n - 1)))
	}
	return d
}
