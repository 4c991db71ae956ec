package live

// What tests of the whole program also look into.
var (
	OpenBroker = openBroker
	FollowDisk = followDisk
)
