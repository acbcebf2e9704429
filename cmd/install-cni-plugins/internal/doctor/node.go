package doctor

// noBinDir is what to do where none of the directories with plugins is there; nil where one is.
func (d *doctor) noBinDir(dirs []string) *Step {
	for _, dir := range dirs {
		if f, err := d.node.resolve(dir); err == nil && f.isDir() {
			return nil
		}
	}

	return todo("Name the node's own bin directory with --bin-dir%s; where the node has none yet, make %s.", d.known(d.Distro.BinDir, dirs[0]), dirs[0]).run("mkdir", "-p", d.inShell(d.real(dirs[0])))
}

// known says in brackets where a distribution has something, where that is elsewhere.
func (d *doctor) known(place, other string) string {
	if place == "" || place == other {
		return ""
	}

	return " (for " + d.Distro.Name + " it is " + place + ")"
}

// seesAll reports whether the root shows more of the node than what was mounted for plugins.
func (d *doctor) seesAll() bool {
	_, err := d.node.resolve("/usr")

	return err == nil
}

// asFarAsSeen warns of what may be there all the same.
func (d *doctor) asFarAsSeen() string {
	if d.seesAll() {
		return ""
	}

	return " (as far as " + d.Root + " shows the node)"
}
