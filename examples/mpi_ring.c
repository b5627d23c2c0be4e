/* Every rank sends to the next one, messages of 8 bytes to 4 MiB, and compares what the previous one has sent.
 *
 *   mpicc examples/mpi_ring.c -o mpi_ring
 *   mpirun -n 2 --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "verbs;ofi_rxm" \
 *     openmrc run --ports eth1 -- ./mpi_ring
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void exchange(int bytes, int rank, int ranks) {
  const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
  unsigned char *sent = malloc(bytes), *received = calloc(bytes, 1), *expected = malloc(bytes);
  if (sent == NULL || received == NULL || expected == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  memset(sent, rank + 1, bytes);
  memset(expected, previous + 1, bytes);
  MPI_Sendrecv(sent, bytes, MPI_BYTE, next, 0, received, bytes, MPI_BYTE, previous, 0, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
  if (memcmp(received, expected, bytes) != 0) {
    printf("rank %d: a message of %d bytes has arrived with other contents\n", rank, bytes);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  free(sent);
  free(received);
  free(expected);
}

int main(int count, char **words) {
  int rank, ranks, sum;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int bytes = 8; bytes <= 4 << 20; bytes *= 8) exchange(bytes, rank, ranks);
  exchange(4 << 20, rank, ranks);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks: all messages have arrived, the sum of ranks is %d\n", ranks, sum);
  MPI_Finalize();
  return 0;
}
