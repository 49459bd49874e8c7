/* The functions of MPI that `mpi.rs` calls, with plain integers in place of the handles and
 * constants, whose types differ between implementations. Each function returns an error code. */
#include <mpi.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request must fit into its handle");
_Static_assert(sizeof(MPI_Message) <= sizeof(uint64_t), "a message must fit into its handle");
_Static_assert(MPI_MAX_ERROR_STRING <= 1024 && MPI_MAX_PROCESSOR_NAME <= 1024, "texts must fit");

static MPI_Comm ranks;

/* `host` has 1024 bytes. `again` is set if MPI was started before. */
int dl_mpi_start(int *again, int *rank, int *size, char *host, int *len) {
    int code, level;
    if ((code = MPI_Initialized(again)) != MPI_SUCCESS || *again)
        return code;
    if ((code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level)) != MPI_SUCCESS)
        return code;
    if ((code = MPI_Comm_dup(MPI_COMM_WORLD, &ranks)) != MPI_SUCCESS)
        return code;
    MPI_Comm_set_errhandler(ranks, MPI_ERRORS_RETURN);
    MPI_Comm_rank(ranks, rank);
    MPI_Comm_size(ranks, size);
    return MPI_Get_processor_name(host, len);
}

int dl_mpi_send(const void *bytes, int len, int to, int tag, uint64_t *handle) {
    MPI_Request request;
    int code = MPI_Isend(bytes, len, MPI_BYTE, to, tag, ranks, &request);
    memcpy(handle, &request, sizeof request);
    return code;
}

/* The next message of any rank. `found` is 0 if there is none. */
int dl_mpi_probe(int *found, int *from, int *tag, int *len, uint64_t *handle) {
    MPI_Message message;
    MPI_Status status;
    int code = MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, ranks, found, &message, &status);
    if (code != MPI_SUCCESS || !*found)
        return code;
    *from = status.MPI_SOURCE;
    *tag = status.MPI_TAG;
    memcpy(handle, &message, sizeof message);
    return MPI_Get_count(&status, MPI_BYTE, len);
}

/* Starts to receive the message with this handle, which becomes that of the request. */
int dl_mpi_receive(void *bytes, int len, uint64_t *handle) {
    MPI_Message message;
    MPI_Request request;
    memcpy(&message, handle, sizeof message);
    int code = MPI_Imrecv(bytes, len, MPI_BYTE, &message, &request);
    memcpy(handle, &request, sizeof request);
    return code;
}

int dl_mpi_test(uint64_t *handle, int *done) {
    MPI_Request request;
    memcpy(&request, handle, sizeof request);
    int code = MPI_Test(&request, done, MPI_STATUS_IGNORE);
    memcpy(handle, &request, sizeof request);
    return code;
}

/* `text` has 1024 bytes. */
int dl_mpi_error(int code, char *text, int *len) { return MPI_Error_string(code, text, len); }

int dl_mpi_end(void) {
    MPI_Comm_free(&ranks);
    return MPI_Finalize();
}

void dl_mpi_abort(int code) { MPI_Abort(ranks, code); }

/* Ends this process without the handlers of its end, which could wait for other processes. */
void dl_mpi_exit(int code) { _exit(code); }
