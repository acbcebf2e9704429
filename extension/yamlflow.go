package extension

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

func (e *editor) flowItem(asset ImagerAsset) string {
	value := flowScalar(asset.value())
	if e.json {
		value = quoted(asset.value())
	}

	return "{" + e.flowKey(asset.key()) + ": " + value + "}"
}

func (e *editor) flowKey(key string) string {
	if e.json {
		return quoted(key)
	}

	return key
}

// appendFlow puts an item before the closing bracket of a flow list or mapping.
func (e *editor) appendFlow(node *yaml.Node, item string) ([]byte, error) {
	open := e.offset(node)
	// An anchor or a tag stands before the bracket.
	for open < len(e.text) && e.text[open] != '[' && e.text[open] != '{' {
		open++
	}

	end, last, lastComma, err := scanFlow(e.text, open)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", node.Line, err)
	}

	if len(node.Content) == 0 {
		return e.splice(open+1, end-open-1, item), nil
	}

	comma, closing := ",", ""
	if lastComma {
		// The comma is there already: it keeps its place, and the new item gets one too.
		comma, closing = "", ","
	}

	// Items on lines of their own get another line, after the comment of the one before.
	if bytes.IndexByte(e.text[open:end], '\n') >= 0 && node.Content[0].Line > node.Line {
		rest := last + 1
		for rest < end && e.text[rest] != '\r' && e.text[rest] != '\n' {
			rest++
		}

		if !bytes.HasPrefix(bytes.TrimLeft(e.text[last+1:rest], " \t"), []byte("#")) {
			rest = last + 1
		}

		line := comma + string(e.text[last+1:rest]) + e.newline + strings.Repeat(" ", node.Content[0].Column-1) + item + closing

		return e.splice(last+1, rest-last-1, line), nil
	}

	return e.splice(last+1, 0, comma+" "+item+closing), nil
}

// scanFlow returns the offset of the bracket that closes the one at open, that of the last byte before it
// that is neither space nor comment, and whether that byte is a comma.
func scanFlow(text []byte, open int) (end, last int, lastComma bool, err error) {
	depth := 0
	last = open

	for i := open; i < len(text); i++ {
		switch c := text[i]; c {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i, last, text[last] == ',', nil
			}
		case '"', '\'':
			// Within a plain word a quote is a letter.
			if opensQuote(text, i) {
				i = skipQuoted(text, i)
			}
		case '#':
			if text[i-1] == ' ' || text[i-1] == '\t' || text[i-1] == '\n' {
				for i+1 < len(text) && text[i+1] != '\n' {
					i++
				}

				continue
			}
		case ' ', '\t', '\r', '\n':
			continue
		}

		last = i
	}

	return 0, 0, false, errors.New("the bracket is not closed")
}

func opensQuote(text []byte, i int) bool {
	before := bytes.TrimRight(text[:i], " \t\r\n")

	return len(before) < i || strings.IndexByte("[{,:", before[len(before)-1]) >= 0
}

// skipQuoted returns the offset of the quote that ends a scalar.
func skipQuoted(text []byte, i int) int {
	quote := text[i]

	for i++; i < len(text); i++ {
		switch {
		case quote == '"' && text[i] == '\\':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i
		}
	}

	return len(text) - 1
}
