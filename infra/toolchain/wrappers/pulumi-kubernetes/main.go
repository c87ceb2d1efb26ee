// Pulumi's Kubernetes provider. Its own command embeds a schema that its module does not contain; to create, preview,
// refresh and destroy, the provider asks no more of the schema than its name and version.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

func main() {
	// Pulumi starts it and ends it; if Pulumi is killed, nobody else would.
	go func(parent int) {
		for os.Getppid() == parent {
			time.Sleep(time.Second)
		}
		os.Exit(1)
	}(os.Getppid())
	schema := fmt.Sprintf(`{"name":"kubernetes","version":%q,"resources":{}}`, version.Version)
	provider.Serve("kubernetes", version.Version, []byte(schema), []byte("{}"))
}
