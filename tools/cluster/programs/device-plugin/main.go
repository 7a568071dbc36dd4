// Offers devices to the kubelet of its node by the API of real device plugins, without any hardware.
//
//	device-plugin example.com/gpu 1
//
// A container that gets some of them finds their names in its variable DEVICES.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	kubelet "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const patience = 10 * time.Second

type plugin struct {
	kubelet.UnimplementedDevicePluginServer
	devices []*kubelet.Device
}

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: device-plugin RESOURCE COUNT"))
	}
	resource := os.Args[1]
	count, err := strconv.Atoi(os.Args[2])
	fail(err)
	served := &plugin{}
	for index := range count {
		device := &kubelet.Device{ID: fmt.Sprintf("device-%d", index), Health: kubelet.Healthy}
		served.devices = append(served.devices, device)
	}
	socket := filepath.Join(kubelet.DevicePluginPath, strings.ReplaceAll(resource, "/", "-")+".sock")
	// That of a process that was killed.
	if err := os.Remove(socket); !os.IsNotExist(err) {
		fail(err)
	}
	listener, err := net.Listen("unix", socket)
	fail(err)
	server := grpc.NewServer()
	kubelet.RegisterDevicePluginServer(server, served)
	ended := make(chan error)
	go func() { ended <- server.Serve(listener) }()
	fail(register(resource, filepath.Base(socket)))
	fail(<-ended)
}

// register has the kubelet connect to our socket.
func register(resource, endpoint string) error {
	connection, err := grpc.NewClient(
		"unix://"+kubelet.KubeletSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
	)
	if err != nil {
		return err
	}
	defer connection.Close()
	limited, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request := &kubelet.RegisterRequest{
		Version: kubelet.Version, Endpoint: endpoint, ResourceName: resource,
	}
	_, err = kubelet.NewRegistrationClient(connection).Register(limited, request)
	return err
}

func (p *plugin) GetDevicePluginOptions(
	context.Context, *kubelet.Empty,
) (*kubelet.DevicePluginOptions, error) {
	return &kubelet.DevicePluginOptions{}, nil
}

// ListAndWatch keeps its stream open, by which the kubelet knows that the devices are there.
func (p *plugin) ListAndWatch(
	_ *kubelet.Empty, stream grpc.ServerStreamingServer[kubelet.ListAndWatchResponse],
) error {
	if err := stream.Send(&kubelet.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *plugin) Allocate(
	_ context.Context, request *kubelet.AllocateRequest,
) (*kubelet.AllocateResponse, error) {
	answer := &kubelet.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		variables := map[string]string{"DEVICES": strings.Join(container.DevicesIds, ",")}
		given := &kubelet.ContainerAllocateResponse{Envs: variables}
		answer.ContainerResponses = append(answer.ContainerResponses, given)
	}
	return answer, nil
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
