package trial

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Write writes the whole record of a trial into an existing folder, with a picture of
// what the model rejects.
func (r *Result) Write(folder string) error {
	text, err := json.MarshalIndent(struct {
		*Result
		History *History
	}{r, r.History}, "", "  ")
	if err != nil {
		return fmt.Errorf("trial: write %s: %w", r.Queue, err)
	}
	name := fmt.Sprintf("%s-%s-%s.json", r.Service, r.Lock, r.Queue)
	if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
		return fmt.Errorf("trial: write %s: %w", r.Queue, err)
	}
	return r.drawPictures(folder)
}
