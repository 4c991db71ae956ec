package canon

// Sizes that all recipes of kind mixed have: engines are made for them.
const (
	MixedUnits   = 16 // of a member
	GroupUnits   = 8  // of a group, for the features win and lose
	BlockMembers = 8  // of a block: the words of a unit of all its members are neighbors
)
