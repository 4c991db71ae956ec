package names

import (
	"regexp"
	"slices"
	"strings"
)

// plainNumber is a decimal number as tools write labels: 1, -2, 1.0, 2.50. A text with
// a leading zero, such as 01, or an exponent is a name.
var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]*)?$`)

// numberOf is the shortest text of the number that a label is, or the label itself if
// it is no plain number: 1 and 1.0 are one class.
func numberOf(label string) string {
	if !plainNumber.MatchString(label) {
		return label
	}
	if strings.Contains(label, ".") {
		label = strings.TrimRight(strings.TrimRight(label, "0"), ".")
	}
	if label == "-0" {
		return "0"
	}
	return label
}

// ClassIndex is the place of a label among classes, -1 if it is none of them. A class
// of the same text precedes one that is the same number.
func ClassIndex(classes []string, label string) int {
	if i := slices.Index(classes, label); i >= 0 || !plainNumber.MatchString(label) {
		return i
	}
	number := numberOf(label)
	return slices.IndexFunc(classes, func(c string) bool { return numberOf(c) == number })
}

// SameNumbers gives the labels that are the same number as another one of a list the
// text of the one that is first in it.
func SameNumbers(labels []string) map[string]string {
	same, first := map[string]string{}, map[string]string{}
	for _, l := range labels {
		if of, seen := first[numberOf(l)]; seen && of != l {
			same[l] = of
		} else {
			first[numberOf(l)] = l
		}
	}
	return same
}

// JoinClasses makes one class of labels that are the same number, with a warning, and
// gives each label's place among the classes.
func JoinClasses(labels []string, warn func(format string, args ...any)) (classes []string, index map[string]int) {
	same, index := SameNumbers(labels), make(map[string]int, len(labels))
	for _, l := range labels {
		if same[l] == "" {
			index[l] = len(classes)
			classes = append(classes, l)
		}
	}
	for _, l := range labels {
		if of, twice := same[l]; twice {
			index[l] = index[of]
			if warn != nil {
				warn("labels %q and %q are the same number, and one class: %q", of, l, of)
			}
		}
	}
	return classes, index
}
