package release

// Moved is MoveMarker without a file.
func (p Pinned) Moved(data []byte, writer, release string) ([]byte, error) {
	return p.moved(data, writer, release)
}
