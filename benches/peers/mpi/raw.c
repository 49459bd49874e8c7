/* MPI by itself, for `dl-dist/benches/ranks.rs`: `mpirun -n 2 raw ROUNDS`. Rank 0 prints a line
 * `NAME SIZE MICROSECONDS` for each measurement, the median over the rounds. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank;
static double *times;

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(const char *name, int size, int rounds) {
    qsort(times, rounds, sizeof *times, by_size);
    if (rank == 0)
        printf("%s %d %.2f\n", name, size, times[rounds / 2]);
}

/* There and back between ranks 0 and 1. */
static void ping_pong(int bytes, int rounds) {
    char *message = calloc(bytes, 1);
    for (int round = -10; round < rounds; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        if (rank == 0) {
            MPI_Send(message, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(message, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(message, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(message, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
        }
        if (round >= 0)
            times[round] = 1e6 * (MPI_Wtime() - begin);
    }
    print("ping-pong", bytes, rounds);
    free(message);
}

static void all_reduce(int numbers, int rounds) {
    float *from = calloc(numbers, sizeof *from), *to = calloc(numbers, sizeof *to);
    /* Memory that was never written would be one page of zeros, which is always in the cache. */
    for (int i = 0; i < numbers; i++)
        from[i] = i;
    for (int round = -3; round < rounds; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        MPI_Allreduce(from, to, numbers, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        if (round >= 0)
            times[round] = 1e6 * (MPI_Wtime() - begin);
    }
    print("all-reduce", numbers, rounds);
    free(from);
    free(to);
}

int main(int arguments, char **words) {
    int rounds = arguments > 1 ? atoi(words[1]) : 100;
    times = calloc(20 * rounds, sizeof *times);
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int bytes = 8; bytes <= 1 << 20; bytes *= 512 / 4)
        ping_pong(bytes, 20 * rounds);
    int sizes[] = {1 << 10, 1 << 16, 1 << 20, 6348 << 10};
    for (int i = 0; i < 4; i++)
        all_reduce(sizes[i], sizes[i] < 1 << 20 ? rounds : rounds / 5 + 1);
    MPI_Finalize();
    return 0;
}
