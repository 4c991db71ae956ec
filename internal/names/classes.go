package names

import (
	"regexp"
	"slices"
	"strings"
)

// plainNumber matches a decimal number as tools write labels: 1, -2, 1.0, 2.50. A text with a
// leading zero, such as 01, or an exponent is a name.
var plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]*)?$`)

// shortNumber returns the shortest text of a label's number, or the label if it is no plain
// number: 1 and 1.0 are one class.
func shortNumber(label string) string {
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

// ClassIndex returns the index of a label among classes, -1 if absent. An equal text precedes
// an equal number.
func ClassIndex(classes []string, label string) int {
	if i := slices.Index(classes, label); i >= 0 || !plainNumber.MatchString(label) {
		return i
	}
	number := shortNumber(label)
	return slices.IndexFunc(classes, func(c string) bool { return shortNumber(c) == number })
}

// healthyNames are names of classes of a machine without a fault, in lower case, without blanks, -
// and _.
var healthyNames = []string{"normal", "healthy", "ok", "good", "nominal", "nofault", "faultfree"}

// IsHealthy reports whether a class's name means a machine without a fault.
func IsHealthy(class string) bool {
	return slices.Contains(healthyNames, strings.NewReplacer(" ", "", "-", "", "_", "").Replace(strings.ToLower(class)))
}

// SameNumbers maps each label with the same number as an earlier label to the first such label.
func SameNumbers(labels []string) map[string]string {
	same, first := map[string]string{}, map[string]string{}
	for _, l := range labels {
		if original, found := first[shortNumber(l)]; found && original != l {
			same[l] = original
		} else {
			first[shortNumber(l)] = l
		}
	}
	return same
}

// JoinClasses joins labels with the same number into one class, with a warning, and returns the
// class index of each label.
func JoinClasses(labels []string, warn func(format string, args ...any)) (classes []string, index map[string]int) {
	same, index := SameNumbers(labels), make(map[string]int, len(labels))
	for _, l := range labels {
		if same[l] == "" {
			index[l] = len(classes)
			classes = append(classes, l)
		}
	}
	for _, l := range labels {
		if original, twice := same[l]; twice {
			index[l] = index[original]
			if warn != nil {
				warn("labels %q and %q are the same number, and one class: %q", original, l, original)
			}
		}
	}
	return classes, index
}
