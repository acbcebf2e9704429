package talosimage

// What fuzz tests feed without files.
var (
	WalkInitramfs = walkInitramfs
	ReadRootfs    = readRootfs
	UKIInitrds    = ukiInitrds
)
