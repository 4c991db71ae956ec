package report

import (
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/compare"
	"github.com/eusn-stream/eusn-stream/internal/paper"
)

// methodOf returns a model of the section as a method.
func (s *section) methodOf(model, name string) compare.Method {
	return compare.Method{Name: name, Accuracy: func(dataset string) (float64, bool) {
		e := s.entries[[2]string{dataset, model}]
		if e == nil {
			return 0, false
		}
		return e.Accuracy, true
	}}
}

// comparisons are the comparisons of one protocol's models: all models, and only the
// reservoirs if more data sets count then. Banks are compared with published classifiers.
func (s *section) comparisons() []*compare.Ranking {
	if s.Protocol == paper.Compare {
		return compare.RankWithPublished(s.Datasets, s.methods())
	}
	pick := func(title string, keep func(string) bool) *compare.Ranking {
		var methods []compare.Method
		for _, m := range s.Models {
			if keep(m) {
				methods = append(methods, s.methodOf(m, displayName(m)))
			}
		}
		return compare.Rank(title, s.Datasets, methods)
	}
	all := pick("All models", func(string) bool { return true })
	reservoirs := pick("Reservoirs of the paper", func(m string) bool { return slices.Contains(paper.PaperModels, m) })
	var found []*compare.Ranking
	if reservoirs != nil && (all == nil || len(reservoirs.Datasets) > len(all.Datasets)) {
		found = append(found, reservoirs)
	}
	if all != nil {
		found = append(found, all)
	}
	return found
}

// methods are the section's models.
func (s *section) methods() (all []compare.Method) {
	for _, m := range s.Models {
		all = append(all, s.methodOf(m, displayName(m)))
	}
	return all
}

// acrossProtocols compares our Euler State Networks with published figures.
func (r *Report) acrossProtocols() *compare.Ranking {
	var methods []compare.Method
	var datasets []string
	for _, s := range r.sections {
		for _, m := range []string{"eusn", paper.BankModel} {
			if slices.Contains(s.Models, m) {
				methods = append(methods, s.methodOf(m, (&entry{Cell: paper.Cell{Model: m}, section: s}).classifier()))
				datasets = append(datasets, s.Datasets...)
			}
		}
	}
	if len(methods) == 0 {
		return nil
	}
	slices.Sort(datasets)
	methods = append(methods, compare.Method{Name: "paper's EuSN", Accuracy: paperScore})
	for _, name := range paper.Classifiers {
		methods = append(methods, compare.Published(name))
	}
	return compare.Rank("Beside published figures", slices.Compact(datasets), methods)
}

// paperScore returns the accuracy of the paper's Euler State Network.
func paperScore(dataset string) (float64, bool) {
	p, ok := paper.Paper(dataset, "eusn")
	return p.Accuracy, ok
}
