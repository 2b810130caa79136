// Generate writes the alerting rules and the dashboard, into the folder of examples/ops.
package main

import (
	"flag"
	"log"
	"os"
	"path/filepath"

	"github.com/fairlock/fairlock/examples/ops/monitoring"
)

func main() {
	folder := flag.String("o", "..", "the folder to write into")
	flag.Parse()
	files, err := monitoring.Files()
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(*folder, name), text, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
