// Command service is a program like many: it serves gRPC, has metrics, traces, logs and flags.
package main

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	"go.uber.org/zap"
	"golang.org/x/net/http2"
	"golang.org/x/text/language"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

func main() {
	fmt.Println(prometheus.NewRegistry(), &cobra.Command{}, otel.GetTracerProvider(), zap.NewNop(), http2.NextProtoTLS, language.English, grpc.NewServer(), proto.Size(nil), holds())
}
